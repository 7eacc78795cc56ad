//! Headers of `.npy` files.

use kstore::source::Element;
use kstore::source::npy::parse_header;
fn bytes(version: u8, text: &str) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    match version {
        1 => bytes.extend((text.len() as u16).to_le_bytes()),
        _ => bytes.extend((text.len() as u32).to_le_bytes()),
    }
    bytes.extend(text.as_bytes());
    bytes
}

const PLAIN: &str = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }   \n";

#[test]
fn headers_of_all_versions_read() {
    for version in 1..=3 {
        let header = parse_header(&bytes(version, PLAIN)).unwrap();
        assert_eq!((header.element, header.row_count, header.column_count), (Element::F32, 3, 2));
        assert_eq!(header.data_offset, bytes(version, PLAIN).len());
    }
    let header = parse_header(&bytes(1, "{\"shape\":(7,),\"fortran_order\":False,\"descr\":\"|u1\"}")).unwrap();
    assert_eq!((header.element, header.row_count, header.column_count), (Element::U8, 7, 1));
}

#[test]
fn wrong_headers_say_what_is_wrong() {
    let with = |from: &str, to: &str| parse_header(&bytes(1, &PLAIN.replace(from, to))).unwrap_err();
    assert!(with("<f4", ">f4").contains("big-endian"));
    assert!(with("<f4", "<c8").contains("c8"));
    assert!(
        parse_header(&bytes(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 0)}"))
            .unwrap_err()
            .contains("0 columns")
    );
    assert!(parse_header(&bytes(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4000000000)}")).is_err());
    assert!(parse_header(&bytes(1, &PLAIN.replace("False", "True"))).unwrap().is_column_major);
    assert!(with("False", "Perhaps").contains("fortran_order"));
    assert!(with("(3, 2)", "(3, 2, 1)").contains("3 dimensions"));
    assert!(with("(3, 2)", "()").contains("0 dimensions"));
    assert!(with("(3, 2)", "(-3, 2)").contains("(1000, 8)"));
    assert!(with("(3, 2)", "(9999999999999999999, 4000000000)").contains("larger"));
    assert!(with("'shape'", "'form'").contains("shape"));
    assert!(with("'<f4'", "[('a', '<f4')]").contains("named fields"));
    assert!(parse_header(&bytes(9, PLAIN)).unwrap_err().contains("version 9"));
}
